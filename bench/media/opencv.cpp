// SPDX-License-Identifier: MIT
/*
 * opencv: a model's input by OpenCV, for bench/media/prepare.c. The order is the one that costs
 * least: planes of YUV and words are scaled before the colours are converted, and bytes become
 * floats last.
 */
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "prepare.h"

using cv::Mat;

/* Memory is kept between calls, as a program for a camera keeps it. */
static Mat kept[8], planes[3];

static Mat part(const struct work *w, int plane, int type, const struct rect &r, int sub)
{
	int width = w->width / sub;

	return Mat(w->height / sub, width, type, w->planes[plane], width * CV_ELEM_SIZE(type))
		(cv::Rect(r.x / sub, r.y / sub, r.width / sub, r.height / sub));
}

static const Mat &scaled(const Mat &from, cv::Size size, Mat &to)
{
	if (from.size() == size)
		return from;
	cv::resize(from, to, size, 0, 0, cv::INTER_LINEAR);
	return to;
}

static void converted(const Mat &from, int code, cv::Size size, Mat &to)
{
	cv::cvtColor(from, from.size() == size ? to : kept[0], code);
	if (from.size() != size)
		cv::resize(kept[0], to, size, 0, 0, cv::INTER_LINEAR);
}

static void picture(const struct work *w, const struct rect &r, Mat &to)
{
	cv::Size size(w->picture.width, w->picture.height), half(size.width / 2, size.height / 2);
	Mat y, uv;

	switch (w->format) {
	case NV12:
		y = part(w, 0, CV_8UC1, r, 1);
		uv = part(w, 1, CV_8UC2, r, 2);
		break;
	case P010:
		cv::convertScaleAbs(part(w, 0, CV_16UC1, r, 1), kept[0], 1 / 256.);
		cv::convertScaleAbs(part(w, 1, CV_16UC2, r, 2), kept[1], 1 / 256.);
		y = kept[0];
		uv = kept[1];
		break;
	case YUYV:
		return converted(part(w, 0, CV_8UC2, r, 1), cv::COLOR_YUV2RGB_YUY2, size, to);
	case XRGB:
		return cv::cvtColor(scaled(part(w, 0, CV_8UC4, r, 1), size, kept[0]), to,
				    cv::COLOR_BGRA2RGB);
	case RGB:
		return cv::resize(part(w, 0, CV_8UC3, r, 1), to, size, 0, 0, cv::INTER_LINEAR);
	default:
		return converted(part(w, 0, w->format == BAYER ? CV_8UC1 : CV_16UC1, r, 1),
				 cv::COLOR_BayerRG2RGB, size, to);
	}
	cv::cvtColorTwoPlane(scaled(y, size, kept[2]), scaled(uv, half, kept[3]), to,
			     cv::COLOR_YUV2RGB_NV12);
}

bool by_opencv(struct work *w)
{
	const cv::Size size(w->out_width, w->out_height);
	const cv::Rect p(w->picture.x, w->picture.y, w->picture.width, w->picture.height);
	const size_t pixels = size.area();

	if (w->filter || w->format == I420)
		return false;
	cv::setNumThreads(1);
	for (int i = 0; i < w->images; i++) {
		Mat bars[3];
		int n = 3;

		if (w->bytes) {
			Mat image(size, CV_8UC3, (uint8_t *)w->out + i * pixels * 3), to = image(p);

			picture(w, w->sources[i], to);
			bars[0] = image;
			n = 1;
		} else {
			picture(w, w->sources[i], kept[4]);
			cv::split(kept[4], planes);
			for (int c = 0; c < 3; c++) {
				Mat to;

				bars[c] =
					Mat(size, CV_32FC1, (float *)w->out + (i * 3 + c) * pixels);
				to = bars[c](p);
				planes[c].convertTo(to, CV_32FC1, w->factor[c], w->offset[c]);
			}
		}
		for (int c = 0; c < n; c++) {
			cv::Scalar grey = cv::Scalar::all(w->bytes ? 114 : 114 / 255.);

			if (p.y)
				bars[c].rowRange(0, p.y).setTo(grey);
			if (p.br().y < size.height)
				bars[c].rowRange(p.br().y, size.height).setTo(grey);
		}
	}
	return true;
}
